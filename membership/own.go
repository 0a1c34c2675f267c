package membership

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
)

// Periods of the care for this host's own records.
const (
	// announceEvery is how often the announcement is renewed even if nothing
	// changed: hosts that join later refuse one that is a month old.
	announceEvery = 24 * time.Hour
	// selfEvery is how often the announcement is compared with the facts.
	selfEvery = time.Second
)

// Coord is what this host's records need of the coordination service.
type Coord interface {
	View() *coord.View
	// WithTable shows the table of membership records.
	WithTable(ctx context.Context, look func(*member.Table)) error
	// AddRecords merges records and gives them to the others.
	AddRecords(ctx context.Context, rs member.Records) error
	// Leave merges the end of a key and tells all others at once.
	Leave(ctx context.Context, rec member.Signed) error
}

// Journal writes this host's events.
type Journal interface {
	Note(kind event.Kind, body any)
	Append(ctx context.Context, kind event.Kind, body any) (uint64, error)
	Record(ctx context.Context, kind event.Kind, body any)
}

// OwnOptions are what Own needs.
type OwnOptions struct {
	Identity *join.Identity
	StateDir string
	// Said was announced at the start, with Epoch.
	Said  join.About
	Epoch uint64

	Roster  *Roster
	Coord   Coord
	Journal Journal
	// About is what this host announces about itself, by its configuration.
	About func() (join.About, error)
	// Advertised reports whether the operator configured where this host is
	// reached.
	Advertised func() bool
	// Alive lists the other members that are alive.
	Alive func() []cluster.NodeID
	// SetKey gives the mesh device another key.
	SetKey func(ctx context.Context, id *join.Identity) error
	// Depart asks the holder to go on without this host.
	Depart func(ctx context.Context, actor string) error
	// Renew asks a sponsor for another certificate.
	Renew func(ctx context.Context) (forward.Certificate, error)
	// WaitStable waits until others have event seq of this host's chain.
	WaitStable func(ctx context.Context, seq uint64) (int, error)
	// Ephemeral has this host leave when it stops, whatever its invite says.
	Ephemeral bool
	Log       View
	// Drain ends the work of this host, as far as that ends in time.
	Drain func(context.Context) error
	// End ends the daemon.
	End func(reason error)
	// Heartbeat is the period of the others' heartbeats.
	Heartbeat time.Duration
	Rand      func() float64
	Logger    zerolog.Logger
}

// Own keeps this host's own records: its announcement, its certificate, its
// WireGuard key, and their end. All of it happens in one goroutine, so that no
// two announcements of one epoch exist.
type Own struct {
	o OwnOptions
	// id is the identity with the present WireGuard key.
	id *join.Identity
	// asks run in the goroutine; capacity 0, the sender waits.
	asks chan func(context.Context)

	said     join.About // last announced
	saidAt   time.Time
	epoch    uint64      // of that announcement
	forked   atomic.Bool // others hold another announcement of the same epoch
	rotation *rotation   // nil: none under way
	gaveUp   atomic.Pointer[string]
	renewTry time.Time   // not before
	left     atomic.Bool // nothing is announced any more
}

// NewOwn returns an Own that does nothing until Run runs.
func NewOwn(o OwnOptions) *Own {
	s := &Own{
		o: o, id: o.Identity, asks: make(chan func(context.Context)), said: o.Said, saidAt: time.Now(), epoch: o.Epoch,
	}
	s.gaveUp.Store(new(""))
	return s
}

// Forked reports that the others hold another announcement of this host with the
// same epoch as its own.
func (s *Own) Forked() { s.forked.Store(true) }

// Left reports whether this host left the cluster.
func (s *Own) Left() bool { return s.left.Load() }

// ask runs f in the goroutine and waits for its answer.
func ask[T any](ctx context.Context, s *Own, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	var none T
	select {
	case s.asks <- func(own context.Context) {
		own, cancel := context.WithCancel(own)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		v, err := f(own)
		done <- answer{v, err}
	}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Run keeps the records until ctx ends.
func (s *Own) Run(ctx context.Context) error {
	tick := wait.NewTicker(selfEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-s.asks:
			f(ctx)
		case <-tick.C:
			tick.Next()
		}
		if s.left.Load() {
			continue
		}
		if err := s.rotate(ctx); err != nil {
			return err
		}
		s.renew(ctx)
		s.refresh(ctx)
	}
}

// refresh announces this host anew if it changed or a day passed.
func (s *Own) refresh(ctx context.Context) {
	about, err := s.about()
	if err != nil {
		s.o.Logger.Warn().Err(err).Msg("addresses of this host unknown")
		return
	}
	again := s.contradicted()
	if !again && reflect.DeepEqual(about, s.said) && time.Since(s.saidAt) < announceEvery {
		return
	}
	if err := s.announce(ctx, about); err != nil {
		s.o.Logger.Error().Err(err).Msg("announcement of this host refused")
	}
}

// contradicted reports whether the others hold an announcement of this host that
// it does not know: its state directory was restored from a backup. It then makes
// sure that the next one supersedes theirs.
func (s *Own) contradicted() bool {
	again := s.forked.Swap(false)
	self, ok := s.o.Roster.Self()
	if !ok || self.Epoch <= s.epoch {
		return again
	}
	if err := starts.RaiseEpoch(s.o.StateDir, self.Epoch); err != nil {
		s.o.Logger.Error().Err(err).Msg("others hold a later announcement of this host")
		return false
	}
	s.o.Logger.Warn().Uint64("epoch", self.Epoch).Msg("others hold a later announcement of this host: a restored backup?")
	return true
}

// about is what this host announces now: its configuration, where the others see
// it, and the key that it is changing to.
func (s *Own) about() (join.About, error) {
	about, err := s.o.About()
	if err != nil {
		return about, err
	}
	s.seen(&about)
	if r := s.rotation; r != nil {
		about.Next, about.NextAt = r.key, r.at
	}
	return about, nil
}

// announce signs what this host says and gives it to the others.
func (s *Own) announce(ctx context.Context, about join.About) error {
	s.said, s.saidAt = about, time.Now() // even if it fails: no immediate retry
	ann, err := join.Announce(s.o.StateDir, s.id, about, s.saidAt)
	if err != nil {
		return err
	}
	s.epoch = EpochOf(ann)
	return s.o.Coord.AddRecords(ctx, member.Records{Anns: []member.Signed{ann}})
}

// EpochOf is the epoch of an announcement that this host made.
func EpochOf(ann member.Signed) uint64 {
	a, err := member.ParseAnn(ann)
	if err != nil {
		panic("membership: own announcement is unreadable: " + err.Error())
	}
	return a.Epoch
}

// Timing of the renewal of certificates.
const (
	// tableTime bounds one look at the table of members.
	tableTime = 2 * time.Second
	// renewTime bounds one request to the sponsors.
	renewTime = 20 * time.Second
	// renewPause is the time between attempts, plus up to as much at random.
	renewPause = time.Minute
)

// renew asks a sponsor for a new certificate once the present one is due. While
// no sponsor answers, only new members do not trust this host: members that know
// it keep trusting it until it is revoked.
func (s *Own) renew(ctx context.Context) {
	now := time.Now()
	if now.Before(s.renewTry) {
		return
	}
	var cert member.Cert
	due := false
	look, cancel := context.WithTimeout(ctx, tableTime)
	err := s.o.Coord.WithTable(look, func(t *member.Table) {
		cert, _ = t.Cert(s.id.Node)
		due = t.RenewDue(s.id.Node, now)
	})
	cancel()
	if err != nil || !due {
		return
	}
	pause := renewPause
	if life := time.Duration(cert.Expires-cert.Issued) * time.Second; life > 0 {
		pause = min(pause, life/20)
	}
	s.renewTry = now.Add(pause + time.Duration(s.o.Rand()*float64(pause)))
	if err := s.askForCert(ctx, cert); err != nil {
		s.o.Logger.Warn().Err(err).Time("expires", time.Unix(cert.Expires, 0)).Msg("certificate not renewed yet")
	}
}

// askForCert gets a certificate newer than old from a sponsor.
func (s *Own) askForCert(ctx context.Context, old member.Cert) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	reply, err := s.o.Renew(ctx)
	if err != nil {
		return err
	}
	if reply.Cert == nil {
		return fmt.Errorf("empty answer of %s", reply.By)
	}
	rec, err := member.ParseSigned(*reply.Cert)
	if err != nil {
		return fmt.Errorf("answer of %s: %w", reply.By, err)
	}
	cert, err := member.ParseCert(rec)
	if err != nil {
		return fmt.Errorf("answer of %s: %w", reply.By, err)
	}
	if cert.Issued <= old.Issued {
		return fmt.Errorf("not due yet by the clock of %s", reply.By)
	}
	if err := s.o.Coord.AddRecords(ctx, member.Records{Certs: []member.Signed{rec}}); err != nil {
		return err
	}
	s.o.Logger.Info().Str("peer", string(reply.By)).Msg("certificate renewed")
	return nil
}

// seen adds where the others see this host: behind NAT it is reached where its
// packets come from, unless the operator configured something else. That address
// comes last: the others may be wrong, so a host's own addresses are tried first.
func (s *Own) seen(about *join.About) {
	v := s.o.Coord.View()
	about.NAT = v.NAT
	at := v.PublicEndpoint
	if !v.NAT || !at.IsValid() || s.o.Advertised() || slices.Contains(about.Endpoints, at) {
		return
	}
	about.Endpoints = withSeen(about.Endpoints, at)
}
