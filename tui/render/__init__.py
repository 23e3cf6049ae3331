"""Values as text, rows and colours; knows no screen."""
