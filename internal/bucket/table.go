package bucket

import "time"

// MaxCounted bounds whom a Table counts at once. Who has asked for nothing of late needs
// no place; whoever finds none counts together with all others who find none, so that a
// flood from many frees nobody.
const MaxCounted = 8192

// sweepEvery is how often places are made free at most.
const sweepEvery = time.Second

// Table counts what many ask for, by one of several rates each. It has one owner.
type Table struct {
	rates []Rate
	used  map[count]*Bucket
	swept time.Duration
}

type count struct {
	rate int
	who  string // empty: all who found no place
}

// NewTable returns a Table that has counted nothing.
func NewTable(rates ...Rate) *Table { return &Table{rates: rates, used: map[count]*Bucket{}} }

// at returns the bucket of somebody.
func (t *Table) at(rate int, who string, now time.Duration) *Bucket {
	id := count{rate, who}
	if b := t.used[id]; b != nil {
		return b
	}
	if len(t.used) >= MaxCounted && now-t.swept >= sweepEvery {
		t.swept = now
		for id, b := range t.used {
			if b.Left(t.rates[id.rate], now) >= t.rates[id.rate].Burst {
				delete(t.used, id)
			}
		}
	}
	if len(t.used) >= MaxCounted {
		if id.who = ""; t.used[id] != nil {
			return t.used[id]
		}
	}
	b := &Bucket{}
	t.used[id] = b
	return b
}

// Take counts what somebody asks for by a rate. It returns how long to wait if it is one
// too many, which does not count; 0: it is not.
func (t *Table) Take(rate int, who string, now time.Duration) time.Duration {
	b := t.at(rate, who, now)
	if b.Take(t.rates[rate], now) {
		return 0
	}
	return max(time.Millisecond, b.Wait(t.rates[rate], 1, now))
}

// Wait is how long somebody has to wait for the next by a rate; 0: not at all.
func (t *Table) Wait(rate int, who string, now time.Duration) time.Duration {
	if t.used[count{rate, who}] == nil && len(t.used) < MaxCounted {
		return 0
	}
	return t.at(rate, who, now).Wait(t.rates[rate], 1, now)
}
