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
			"Whether this host takes less on while it is overloaded: docs/overload.md. Without, it",
			"is measured all the same."),
		intKey("overload.delay_ms", func(c *Live) *int64 { return &c.OverloadDelayMS }, 5, 10_000,
			"This host is overloaded from where on everything waits for so long, or for three times",
			"as long as usual, in milliseconds; what the lease needs counts from two fifths of it on."),
	}
}
