"""What is known before anything is changed."""
