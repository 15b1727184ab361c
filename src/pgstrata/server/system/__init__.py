"""What clusters need of the operating system: accounts, processes, control groups, namespaces, disks."""
