package config

import "time"

// OverloadDelay is from which delay of its work on a host is overloaded.
func (l Live) OverloadDelay() time.Duration {
	return time.Duration(l.OverloadDelayMS) * time.Millisecond
}

// overloadKeys are [overload]: when this host counts as overloaded, see docs/overload.md.
func overloadKeys() []key {
	return []key{
		boolKey("overload.enabled", func(c *Live) *bool { return &c.OverloadEnabled },
			"Whether this host takes on less while it is overloaded: docs/overload.md. It is measured",
			"either way."),
		intKey("overload.delay_ms", func(c *Live) *int64 { return &c.OverloadDelayMS }, 5, 10_000,
			"This host is overloaded once everything waits this long, in milliseconds, or three times",
			"as long as usual if that is more; for what the lease needs, from two fifths of it on."),
	}
}
