"""The full-screen views; each one reads through the session and draws what it got."""
