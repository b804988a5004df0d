"""Files that an older gofer wrote, kept as text: how they are recorded, and how a test gets them back."""
