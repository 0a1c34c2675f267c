package vital

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// FirstContact is how long a host that was just learned of, lost or heard again
// may take to open its stream before it counts as one without a worker.
const FirstContact = 10 * time.Second

// Contact is whether a worker can be reached.
type Contact struct {
	Health    cluster.Health // "" : nothing known, counts as alive
	Connected bool
	Since     time.Duration // when its stream was lost, or it was first heard of
	Revived   time.Duration // when it was last heard again after it counted as dead
}

// Healthy reports that the worker may get new work: it is alive and its stream
// is open.
func (c *Contact) Healthy() bool {
	switch c.Health {
	case cluster.Suspect, cluster.Dead, cluster.Left:
		return false
	}
	return c.Connected
}

// Gone reports that what the worker had is lost.
func (c *Contact) Gone() bool { return c.Health == cluster.Dead || c.Health == cluster.Left }

// Coming reports that the worker was learned of, lost or heard again a moment
// ago, and may yet open its stream.
func (c *Contact) Coming(now time.Duration) bool {
	return !c.Connected && (now-c.Since < FirstContact || now-c.Revived < FirstContact)
}

// Believe takes in what is believed of the worker's host.
func (c *Contact) Believe(h cluster.Health, now time.Duration) {
	if c.Health == cluster.Dead && h != cluster.Dead {
		c.Revived = now
	}
	c.Health = h
}

// Lose takes in that the stream ended.
func (c *Contact) Lose(now time.Duration) {
	if c.Connected {
		c.Connected, c.Since = false, now
	}
}
