package kept

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
)

// findWidth is how many hosts are asked for a file at once.
const findWidth = 8

// Find says which of some files, of what jobs left, are on no host that can be asked; sure
// says that every member was, and that none of them has it.
func (s *Stores) Find(ctx context.Context, files []cluster.Hash) (absent []cluster.Hash, sure bool) {
	sure = true
	var places []artefact.Place
	for _, m := range s.o.View().Members {
		switch {
		case m.Node == s.o.Self || m.Health == cluster.Left:
		case m.Health == cluster.Dead:
			sure = false
		default:
			places = append(places, artefact.Place{Node: m.Node, Zone: m.Zone})
		}
	}
	for _, h := range files {
		if s.Artefacts.Ask(ctx, h, "") == artefact.Present {
			continue
		}
		there, all := s.anywhere(ctx, h, artefact.Copies(h, places, len(places)))
		if there {
			continue
		}
		absent = append(absent, h)
		sure = sure && all
	}
	return absent, sure
}

// Read reads a file that a job left, from here or from whoever has it.
func (s *Stores) Read(ctx context.Context, f job.OutputFile) ([]byte, error) {
	r, err := s.Artefacts.Stream(ctx, f.Hash, f.Size, []cluster.NodeID{f.Worker})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// anywhere asks hosts, those first that should have it, until one may have it; all says
// that each of them answered.
func (s *Stores) anywhere(ctx context.Context, h cluster.Hash, hosts []cluster.NodeID) (there, all bool) {
	var found, silent atomic.Bool
	for len(hosts) > 0 && !found.Load() {
		n := min(findWidth, len(hosts))
		var asking sync.WaitGroup
		for _, host := range hosts[:n] {
			asking.Go(func() {
				switch s.Artefacts.Ask(ctx, h, host) {
				case artefact.Present, artefact.Maybe:
					found.Store(true)
				case artefact.Silent:
					silent.Store(true)
				}
			})
		}
		asking.Wait()
		hosts = hosts[n:]
	}
	return found.Load(), !silent.Load()
}
