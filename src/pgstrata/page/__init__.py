"""What a page is made of: blocks, charts, numbers, and a campaign's runs arranged for reading."""
