// Package fakeflows is one run of a workflow, with fixed answers, for tests.
package fakeflows
