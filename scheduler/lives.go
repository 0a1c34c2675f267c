package scheduler

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/scheduler/stream"
)

// fact logs what is no decision, as long as there is room and everybody knows what it means.
func (t *term) fact(kind event.Kind, body any) {
	if t.tells(kind) {
		t.batch.add(event.Draft{Kind: kind, Body: body})
	}
}

func (t *term) tells(kind event.Kind) bool {
	return !t.quiet && !t.held && len(t.o.Unaware(kind)) == 0
}

// tellUp logs that a worker has a stream, and what it is.
func (t *term) tellUp(n cluster.NodeID, m stream.Welcome, owner string) {
	own := ownerOf(n, m, owner)
	e := event.WorkerUp{Worker: n, Slots: m.Slots, Executors: m.Executors, Owner: own.Owner, Accept: own.Accept}
	if t.links.lives.Up(e) {
		t.fact(event.KindWorkerUp, e)
	}
}

// tellLives logs which workers are down, and what began.
func (t *term) tellLives() {
	now := t.o.Now()
	for _, e := range t.links.lives.Due(now) {
		t.fact(event.KindWorkerDown, e)
	}
	for _, e := range t.links.lives.Begun(now) {
		t.fact(event.KindChunksStarted, e)
	}
}
