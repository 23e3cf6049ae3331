"""Write a run or graph for other tools."""
