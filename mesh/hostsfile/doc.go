// Package hostsfile writes the names file: the members' names and addresses in the
// form of /etc/hosts, for other programs on the machine. It replaces the file as a
// whole and never overwrites a file that it did not write. It resolves nothing and
// starts no goroutines.
package hostsfile
