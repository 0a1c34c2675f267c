package reserve

import "maps"

// Reservation is so many slots of a zone for the jobs of one owner.
type Reservation struct {
	Owner, Zone string
	Slots       int
}

// Book counts what runs in the zones that have reservations, of hosts alone. The zero value
// has none.
type Book struct {
	list  []Reservation
	zones map[string]*zone
	tries map[place]int // attempts; zones without reservations included
	slots map[string]int
}

// place is where attempts of whom run.
type place struct{ zone, owner string }

// zone is one that has reservations.
type zone struct {
	want map[string]int // by owner
	all  int            // attempts
	room int            // that may be reserved: half of the slots
}

// Set replaces all reservations, the first of which have the room if there is too little.
func (b *Book) Set(list []Reservation) {
	b.list = list
	b.build()
}

// On reports that there are any.
func (b *Book) On() bool { return len(b.zones) > 0 }

// Count takes in how many slots the zones have now. They are asked for only while some are
// reserved.
func (b *Book) Count(zones func() map[string]int) {
	if len(b.list) == 0 {
		return
	}
	if slots := zones(); !maps.Equal(slots, b.slots) {
		b.slots = slots
		b.build()
	}
}

// build grants reservations in their order, no more than half of a zone's slots in all.
func (b *Book) build() {
	b.zones = nil
	for _, r := range b.list {
		z := b.zones[r.Zone]
		if z == nil {
			z = &zone{want: make(map[string]int), room: b.slots[r.Zone] / 2}
			if b.zones == nil {
				b.zones = make(map[string]*zone)
			}
			b.zones[r.Zone] = z
		}
		n := min(max(0, r.Slots), z.room)
		z.room -= n
		z.want[r.Owner] += n
	}
	for p, n := range b.tries {
		if z := b.zones[p.zone]; z != nil {
			z.all += n
		}
	}
}

// Add takes in that an attempt of owner's began there, or with -1 ended.
func (b *Book) Add(zoneName, owner string, n int) {
	if b.tries == nil {
		b.tries = make(map[place]int)
	}
	p := place{zoneName, owner}
	if b.tries[p] += n; b.tries[p] == 0 {
		delete(b.tries, p)
	}
	if z := b.zones[zoneName]; z != nil {
		z.all += n
	}
}

// Admits reports whether another attempt of owner's may begin there: it leaves as many
// slots free as are reserved for others and not used by them.
func (b *Book) Admits(zoneName, owner string) bool {
	z := b.zones[zoneName]
	if z == nil {
		return true
	}
	kept := 0
	for whose, n := range z.want {
		if whose != owner {
			kept += max(0, n-b.tries[place{zoneName, whose}])
		}
	}
	return kept == 0 || z.all+kept < b.slots[zoneName]
}
