"""Commands that run as processes of their own, which outlive whoever started them."""
