package member

import "time"

// indexKeys gives e the WireGuard key that it announced, or leaves it with the
// better claim: e stays certified then, and is no member.
func (t *Table) indexKeys(e *entry, ch *Change, now time.Time) {
	if rival := t.byID[t.byWG[e.ann.WGPub]]; rival != nil && rival.id != e.id {
		if e.noWG = !t.outranks(&e.claim, &rival.claim); e.noWG {
			t.keep(ch, Evidence{Node: rival.cert.Node, Why: ErrConflict, Kept: rival.annRec, Other: e.annRec}, now)
			return
		}
		t.keep(ch, Evidence{Node: e.cert.Node, Why: ErrConflict, Kept: e.annRec, Other: rival.annRec}, now)
		rival.noWG = true
		ch.drop(rival.cert.Node)
	}
	e.noWG, t.byWG[e.ann.WGPub] = false, e.id
}

// unindexKeys gives up e's WireGuard key, to the best of those that lack it.
func (t *Table) unindexKeys(e *entry, ch *Change) {
	if e.ann == nil || e.noWG {
		e.noWG = false
		return
	}
	delete(t.byWG, e.ann.WGPub)
	var heir *entry
	for _, x := range t.byID {
		if x.id != e.id && x.noWG && x.ann.WGPub == e.ann.WGPub && (heir == nil || t.outranks(&x.claim, &heir.claim)) {
			heir = x
		}
	}
	if heir != nil {
		heir.noWG, t.byWG[heir.ann.WGPub] = false, heir.id
		ch.show(heir.cert.Node)
	}
}

// recontendKeys is recontend for WireGuard keys.
func (t *Table) recontendKeys(ch *Change) {
	for _, e := range t.byID {
		if !e.noWG {
			continue
		}
		holder := t.byID[t.byWG[e.ann.WGPub]]
		if holder != nil && !t.outranks(&e.claim, &holder.claim) {
			continue
		}
		if holder != nil {
			holder.noWG = true
			ch.drop(holder.cert.Node)
		}
		e.noWG, t.byWG[e.ann.WGPub] = false, e.id
		ch.show(e.cert.Node)
	}
}
