// Package joboutputs is the command `skein job outputs`: the files that the chunks of a
// job left.
package joboutputs
