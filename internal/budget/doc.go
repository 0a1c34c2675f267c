// Package budget bounds how often what failed is tried again: a tenth of the calls, and
// one a second, so that who tries again does not make an overload worse.
//
// It has no goroutines.
package budget
