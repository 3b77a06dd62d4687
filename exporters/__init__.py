"""What leaves the house: names, parts, ZIPs, splicing, stores, the published archive."""
