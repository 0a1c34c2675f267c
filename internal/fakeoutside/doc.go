// Package fakeoutside is a registry of outside workers and access tokens for tests, in
// memory.
package fakeoutside
