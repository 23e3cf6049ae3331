"""Who a browser is: sessions, the seals of forms, and links that show one run."""
