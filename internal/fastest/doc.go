// Package fastest times what has a bound on the time it may take, on machines that do
// other things as well: of several rounds the fastest counts, for whatever else ran
// only adds to one. For tests.
package fastest
