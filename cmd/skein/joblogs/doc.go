// Package joblogs has the command that shows what attempts at a job's chunks wrote to
// standard error.
package joblogs
