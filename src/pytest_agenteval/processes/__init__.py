"""What only POSIX has, with a replacement for other systems. Only this room asks for the system."""
