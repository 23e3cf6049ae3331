"""What a training job is told so that it dumps: environment, configurations, switch files."""
