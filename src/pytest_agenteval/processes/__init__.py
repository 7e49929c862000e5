"""What only POSIX has, and what stands in its place elsewhere: no other room asks which system it runs on."""
