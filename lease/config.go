package lease

import (
	"slices"

	"github.com/skein-project/skein/cluster"
)

// issue makes c the newest record, one of this term; the caller persists. It is
// pending until settle finds it stable.
func (m *machine) issue(c cluster.VoterConfig) {
	t := &m.hold
	c.Epoch, c.Term, c.Issuer, c.Proof = m.vote.Config.Epoch+1, t.term, m.self, nil
	if slices.Equal(c.Target, c.Voters) {
		c.Target = nil
	}
	m.vote.Config = c
	t.stable = false
	var acks [maxAcks]ack
	n := 0
	keep := func(v cluster.NodeID) {
		a := ack{node: v}
		if old := m.ackOf(v); old != nil {
			a = *old
		}
		if v == m.self {
			a.epoch = c.Epoch
		}
		acks[n] = a
		n++
	}
	for _, v := range c.Voters {
		keep(v)
	}
	for _, v := range t.base.Voters {
		if !c.Has(v) {
			keep(v)
		}
	}
	t.acks, t.nacks = acks, n
}

// settle makes the pending record stable once it is persisted by enough of
// the old and of the new voters.
func (m *machine) settle() {
	t := &m.hold
	if t.stable || !m.persisted(&t.base) || !m.persisted(&m.vote.Config) {
		return
	}
	if c := m.vote.Config; m.heard() != 0 {
		c.Spent &^= m.heard()
		m.issue(c)
		m.persist()
		t.renewAt = m.now
		return
	}
	t.stable, t.base, t.look = true, m.vote.Config, true
	m.do(ConfigStable{Term: t.term, Config: t.base})
}

// persisted reports whether enough voters of c have the newest record: a
// majority, or in available mode all but those that are excused, since there
// no majority keeps the other side from acting on an older one.
func (m *machine) persisted(c *cluster.VoterConfig) bool {
	have, need := 0, c.Majority()
	if c.Mode == cluster.ModeAvailable {
		need = len(c.Voters)
	}
	for _, v := range c.Voters {
		if m.acked(v) || (c.Mode == cluster.ModeAvailable && m.excused(v)) {
			have++
		}
	}
	return have >= need
}

// acked reports whether voter v has the newest record on its disk.
func (m *machine) acked(v cluster.NodeID) bool {
	a := m.ackOf(v)
	return a != nil && a.epoch == m.vote.Config.Epoch
}

// excused reports whether a change in available mode need not wait for v: it
// left for good, or an operator wants it out and it is not there.
func (m *machine) excused(v cluster.NodeID) bool {
	p := m.lookup(v)
	if p != nil && p.Gone {
		return true
	}
	return !slices.Contains(m.vote.Config.Wanted(), v) && (p == nil || !p.Alive)
}

// heard returns the slots that the pending change spends although the voter
// that it takes out has acknowledged it, and so will never again take a term
// alone: another may have them.
func (m *machine) heard() (slots uint64) {
	base := &m.hold.base
	for _, v := range base.Voters {
		if slot, ok := base.Slot(v); ok && !m.vote.Config.Has(v) && m.acked(v) {
			slots |= 1 << slot
		}
	}
	return slots & m.vote.Config.Spent
}

// joined returns the slots of the voters that join. Once every voter has the
// record, whoever comes to hold knows of them, and they may hold alone as well.
func (m *machine) joined() (slots uint64) {
	c := &m.vote.Config
	for _, v := range c.Voters {
		if slot, ok := c.Slot(v); ok {
			slots |= 1 << slot
		}
	}
	return slots & c.Spent
}

// allAcked reports whether every voter has the newest record, so that none
// goes by an older one any more. One that left for good counts as well: nobody
// knows which terms it took alone before.
func (m *machine) allAcked() bool {
	for _, v := range m.vote.Config.Voters {
		if !m.acked(v) {
			return false
		}
	}
	return true
}

// setVoters puts an operator's wish into the record. Voters and mode of the
// record stay, so it may replace one that is pending; reconfigure then goes
// there in steps.
func (m *machine) setVoters(r SetVoters) {
	if CheckVoters(m.State, r) != nil {
		return
	}
	c := wish(m.State, r)
	cur := &m.vote.Config
	if c.Setting == cur.Setting && c.Pinned == cur.Pinned && slices.Equal(c.Target, cur.Target) {
		return
	}
	m.issue(c)
	m.persist()
	m.renew()
	m.settle()
}

// reconfigure issues the next change of voters or mode, if one is wanted and
// nothing is pending: at most one voter. A host that could not hold under the
// next record, since only voters can then, first hands over to one of them.
func (m *machine) reconfigure() {
	t := &m.hold
	if !t.look || !t.ready || !t.stable || t.readyEpoch < m.vote.Config.Epoch {
		return
	}
	t.look = false
	next, ok := m.next()
	if !ok {
		return
	}
	if outsider(&next, m.self) {
		if m.successor("") != "" {
			m.stepDown("", "only voters may hold from here on")
		}
		return
	}
	m.issue(next)
	m.persist()
	m.renew()
	m.settle()
}

// next returns the record of the next step towards what is wanted; ok is false
// if there is none. A step changes one voter, or how the voters decide.
//
// To and from available mode the way leads over a record that goes by majority
// and gives the voters slots. On the way out it comes first, and all must have
// it: were available mode left and a voter added at once, one voter and the
// third could elect a holder while the other, not having heard, acts alone. On
// the way in all must have it before the first may act alone: otherwise a
// majority that has not heard could elect a holder under the same term.
func (m *machine) next() (next cluster.VoterConfig, ok bool) {
	cur := m.vote.Config
	next = cur
	goal, all := m.target()
	next.Target = goal
	if slices.Equal(goal, cur.Voters) {
		next.Target = nil
	}
	mode := m.modeOf(&cur, len(all))
	out, add := m.leaver(all), m.joiner(all)
	p := m.lookup(out)
	gone, lost := p != nil && p.Gone, p != nil && m.lostLately(p)
	switch {
	case gone:
		next.Voters = without(cur.Voters, out)
	case lost:
		next.Voters, next.Target = without(cur.Voters, out), goal
	case m.joined() != 0 && m.allAcked():
		next.Spent &^= m.joined()
		return next, true
	case cur.Mode == cluster.ModeAvailable && mode == cluster.ModeQuorum:
		next.Mode, next.Slots = cluster.ModeQuorum, slotsOf(&cur)
		return next, true
	case add != "" && len(cur.Voters) < cluster.MaxVoters:
		next.Voters = with(cur.Voters, add)
		if len(next.Target) > 0 {
			next.Target = with(without(goal, add), add)
		}
	case out != "":
		next.Voters = without(cur.Voters, out)
	case cur.Mode == cluster.ModeQuorum && mode == cluster.ModeAvailable && len(all) == len(cur.Voters):
		if cur.Split() && !m.allAcked() {
			return next, false
		}
		if cur.Split() {
			next.Mode = mode
		}
		next.Slots = slotsOf(&cur)
		return m.slotted(next, &cur), true
	}
	next.Mode = m.stepMode(&cur, mode, len(next.Voters))
	next = m.slotted(next, &cur)
	if next.Mode != cluster.ModeAvailable && m.dense(&cur) {
		next.Slots, next.Spent = nil, 0
	}
	return next, next.Mode != cur.Mode || !slices.Equal(next.Voters, cur.Voters) || !slices.Equal(next.Slots, cur.Slots)
}

// stepMode is the mode of a step to n voters on the way to mode.
func (m *machine) stepMode(cur *cluster.VoterConfig, mode cluster.Mode, n int) cluster.Mode {
	switch {
	case n == 1:
		return cluster.ModeSingle
	case cur.Mode == cluster.ModeSingle && mode == cluster.ModeAvailable:
		return cluster.ModeAvailable // the only voter knows of it
	case cur.Mode == cluster.ModeAvailable:
		return cluster.ModeAvailable
	}
	return cluster.ModeQuorum
}

// dense reports whether the step after cur may give up the slots: no voter,
// past or present, can hold alone any more.
func (m *machine) dense(cur *cluster.VoterConfig) bool {
	return cur.Spent == 0 && cur.Mode != cluster.ModeAvailable && m.allAcked()
}

// slotted gives every voter of next its slot, if it or cur has slots: a voter
// keeps the one that it has, and a new one gets a slot by the number of the
// record. Two holders that do not hear each other may both add a voter; then
// the records have different numbers, since the later holder began with one of
// its own. The slot of a voter that is taken out is spent at once, until settle
// knows that the voter heard: a holder that fell in between could not tell. That of
// a new one is spent until all have heard of it.
func (m *machine) slotted(next cluster.VoterConfig, cur *cluster.VoterConfig) cluster.VoterConfig {
	if next.Mode != cluster.ModeAvailable && len(next.Slots) == 0 && !cur.Split() {
		return next
	}
	had := slotsOf(cur)
	next.Slots = make([]int, len(next.Voters))
	for i, v := range next.Voters {
		if at, ok := slices.BinarySearch(cur.Voters, v); ok {
			next.Slots[i] = had[at]
			continue
		}
		next.Slots[i] = freeSlot(int((cur.Epoch+1)%cluster.TermSlots), had, next.Slots[:i], cur.Spent)
		if next.Mode == cluster.ModeAvailable && len(cur.Voters) > 1 { // the only one has heard
			next.Spent |= 1 << next.Slots[i]
		}
	}
	for i, v := range cur.Voters {
		if !next.Has(v) {
			next.Spent |= 1 << had[i]
		}
	}
	return next
}

// freeSlot returns the first slot from start on that nobody has and that is not
// spent. After some 57 voters that went unheard all are: then a slot comes again,
// that of one that went long ago and whose terms were passed since.
func freeSlot(start int, had, given []int, spent uint64) int {
	again := -1
	for i := range cluster.TermSlots {
		slot := (start + i) % cluster.TermSlots
		switch {
		case slices.Contains(had, slot) || slices.Contains(given, slot):
		case spent&(1<<slot) == 0:
			return slot
		case again < 0:
			again = slot
		}
	}
	return again
}

// slotsOf are the slots of a record's voters, those to come if it has none.
func slotsOf(c *cluster.VoterConfig) []int {
	if len(c.Slots) > 0 {
		return c.Slots
	}
	slots := make([]int, len(c.Voters))
	for i := range slots {
		slots[i] = i
	}
	return slots
}

// modeOf is the mode for n configured voters. It depends on nothing else: not
// on who is alive, and not on who is seen.
func (s *State) modeOf(c *cluster.VoterConfig, n int) cluster.Mode {
	setting := c.Setting
	if setting == "" {
		setting = s.setting
	}
	if n <= 1 || setting == cluster.ModeAuto {
		return cluster.AutoMode(n)
	}
	return setting
}

func with(voters []cluster.NodeID, v cluster.NodeID) []cluster.NodeID {
	i, _ := slices.BinarySearch(voters, v)
	return slices.Insert(slices.Clone(voters), i, v)
}

func without(voters []cluster.NodeID, v cluster.NodeID) []cluster.NodeID {
	return slices.DeleteFunc(slices.Clone(voters), func(o cluster.NodeID) bool { return o == v })
}
