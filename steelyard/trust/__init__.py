"""What the product says about itself, and how far that can be trusted: accuracy, when to stop, calibration."""
