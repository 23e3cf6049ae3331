"""Pictures as shapes with places: templates write them as SVG."""
