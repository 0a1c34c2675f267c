// Package stream writes answers that go on: lines of JSON, or the same as server-sent
// events. A reader that does not read is cut, and all end when the daemon stops.
//
// It has no goroutines.
package stream
