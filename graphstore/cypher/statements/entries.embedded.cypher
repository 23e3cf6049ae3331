// Databases of entries, made of tables.

// copy: rows of an Arrow table into a table.
COPY <table><columns> FROM $rows
