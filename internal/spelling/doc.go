// Package spelling finds what somebody probably meant who typed a word that is not known.
//
// It has no goroutines.
package spelling
