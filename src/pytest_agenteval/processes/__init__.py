"""What only POSIX has, and its replacement elsewhere. No other room asks which system it runs on."""
