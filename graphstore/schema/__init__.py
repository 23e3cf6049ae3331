"""What a store keeps: tables, columns, and model values as rows of them and back."""
