"""The process that runs turns and deliveries."""
