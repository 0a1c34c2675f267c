//go:build !linux

package engine

func newTimer(bool) (timer, error) { return newPlainTimer(), nil }
