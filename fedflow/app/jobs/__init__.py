"""What users ask about jobs and what they produced, and tidying up after them."""
