package bucket

import "time"

// MaxCounted bounds whom a Table counts at once by one rate. Who has asked for nothing of
// late needs no place; whoever finds none counts together with all others who find none, so
// that a flood from many frees nobody.
const MaxCounted = 8192

// sweepEvery is how often places are made free at most.
const sweepEvery = time.Second

// Table counts what many ask for, by one of several rates each. A flood of what is counted
// by one rate takes no place of the others. It has one owner.
type Table struct{ by []counted }

// counted is who was counted by a rate; empty: all who found no place.
type counted struct {
	Rate
	used  map[string]*Bucket
	swept time.Duration
}

// NewTable returns a Table that has counted nothing.
func NewTable(rates ...Rate) *Table {
	t := &Table{by: make([]counted, len(rates))}
	for i, r := range rates {
		t.by[i] = counted{Rate: r, used: map[string]*Bucket{}}
	}
	return t
}

// at returns the bucket of somebody.
func (c *counted) at(who string, now time.Duration) *Bucket {
	if b := c.used[who]; b != nil {
		return b
	}
	if len(c.used) >= MaxCounted && now-c.swept >= sweepEvery {
		c.swept = now
		for who, b := range c.used {
			if b.Left(c.Rate, now) >= c.Burst {
				delete(c.used, who)
			}
		}
	}
	if len(c.used) >= MaxCounted {
		if who = ""; c.used[who] != nil {
			return c.used[who]
		}
	}
	b := &Bucket{}
	c.used[who] = b
	return b
}

// Take counts what somebody asks for by a rate. It returns how long to wait if it is one
// too many, which does not count; 0: it is not.
func (t *Table) Take(rate int, who string, now time.Duration) time.Duration {
	c := &t.by[rate]
	b := c.at(who, now)
	if b.Take(c.Rate, now) {
		return 0
	}
	return max(time.Millisecond, b.Wait(c.Rate, 1, now))
}

// Wait is how long somebody has to wait for the next by a rate; 0: not at all.
func (t *Table) Wait(rate int, who string, now time.Duration) time.Duration {
	c := &t.by[rate]
	if c.used[who] == nil && len(c.used) < MaxCounted {
		return 0
	}
	return c.at(who, now).Wait(c.Rate, 1, now)
}

// Owe has somebody wait as long as another Table says, if that is longer.
func (t *Table) Owe(rate int, who string, wait, now time.Duration) {
	c := &t.by[rate]
	c.at(who, now).owe(c.Rate, wait, now)
}
