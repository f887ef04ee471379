"""The shipped cores in a world where network, disk and clock are one seed's doing."""
