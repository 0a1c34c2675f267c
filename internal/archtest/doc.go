// Package archtest holds the rules that the code's structure keeps, as data in
// rules.go: who may import whom, that every package states its purpose in
// doc.go, how large a file, a package, a type and a struct may get, and which
// packages decide without side effects. Its tests fail on any other arrow, on
// what exceeds a bound without a reason, and where .golangci.yml does not have
// the same list of pure packages.
package archtest
