"""What belongs to this one paper: its values, tables, figures and claims."""
