"""Events to what a person sees; the only package that prints."""
