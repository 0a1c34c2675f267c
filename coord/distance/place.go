package distance

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"github.com/skein-project/skein/cluster"
)

const (
	dimensions = 8
	placeBytes = 4 * (dimensions + 3)
	// maxPlace is how far from the origin a host may say that it is, in seconds.
	maxPlace = 2
	// apart is how far from the origin a host begins, in seconds, at most: in a direction of
	// its own, so that no two lie on each other, and chance has no part.
	apart = 1e-2

	// near is the least time, in seconds, that an error is judged against: taking a host
	// of the same site to be 30 ms away instead of 1 is no lie.
	near        = 0.1
	wrongWeight = 0.25 // of the latest in how wrong a peer usually is
	wrongOften  = 0.8  // from there on a peer is usually wrong
	// A peer is not believed that is wrong by more than wrongNow, and by many times as much
	// as the others lately were: while hosts find out where they are, all are wrong.
	wrongNow = 2
	many     = 4
	lately   = 16 // peers
)

// errDoubted says that a coordinate is a good one, and not believed.
var errDoubted = errors.New("far from what was measured")

// place is where this host is among the others, and how far they are to be believed.
type place struct {
	client *coordinate.Client
	wrong  map[cluster.NodeID]float64 // how wrong each usually is
	last   []float64                  // how wrong the latest were, of all peers
}

func newPlace(self cluster.NodeID) (*place, error) {
	config := coordinate.DefaultConfig()
	config.Dimensionality = dimensions
	client, err := coordinate.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("coordinates: %w", err)
	}
	at := coordinate.NewCoordinate(config)
	sum := sha256.Sum256([]byte(self))
	for i := range at.Vec {
		at.Vec[i] = apart * (float64(sum[i])/255 - 0.5)
	}
	if err := client.SetCoordinate(at); err != nil {
		return nil, fmt.Errorf("coordinates: %w", err)
	}
	return &place{client: client, wrong: map[cluster.NodeID]float64{}}, nil
}

// update moves this host by a round trip to one that says to be there.
func (p *place) update(node cluster.NodeID, there *coordinate.Coordinate, trip time.Duration) error {
	e := math.Abs(p.distance(there).Seconds()-trip.Seconds()) / max(trip.Seconds(), near)
	w, known := p.wrong[node]
	if !known {
		w = e
	}
	w += wrongWeight * (e - w)
	p.wrong[node] = w
	usual := p.usual()
	if p.last = append(p.last, e); len(p.last) > lately {
		p.last = p.last[1:]
	}
	if e > max(wrongNow, many*usual) && w > wrongOften {
		return errDoubted
	}
	told := *there
	told.Error = max(told.Error, w)
	if _, err := p.client.Update(string(node), &told, trip); err != nil {
		return fmt.Errorf("coordinates: %w", err)
	}
	return nil
}

// usual is how wrong the half of the peers lately was. This host's own error does not
// tell: relative to round trips within a site it is always large.
func (p *place) usual() float64 {
	if len(p.last) < lately/4 {
		return math.Inf(1)
	}
	last := slices.Sorted(slices.Values(p.last))
	return last[len(last)/2]
}

// distance is how far it is there.
func (p *place) distance(there *coordinate.Coordinate) time.Duration {
	return p.client.DistanceTo(there)
}

// sure is how wrong it usually is, 1 as long as too little was measured.
func (p *place) sure() float64 { return min(1, p.usual()) }

func (p *place) forget(node cluster.NodeID) {
	delete(p.wrong, node)
	p.client.ForgetNode(string(node))
}

// encode is a coordinate as it travels: 44 bytes.
func encode(c *coordinate.Coordinate) string {
	b := make([]byte, 0, placeBytes)
	for _, x := range append(c.Vec[:dimensions:dimensions], c.Error, c.Adjustment, c.Height) {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decode reads a coordinate, and refuses one at which no host is.
func decode(text string) (*coordinate.Coordinate, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != placeBytes {
		return nil, fmt.Errorf("coordinate is no %d bytes of base64url", placeBytes)
	}
	var x [dimensions + 3]float64
	from := 0.0
	for i := range x {
		if x[i] = float64(math.Float32frombits(binary.BigEndian.Uint32(b[4*i:]))); math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
			return nil, errors.New("coordinate is not finite")
		}
		if i < dimensions {
			from += x[i] * x[i]
		}
	}
	c := &coordinate.Coordinate{Vec: x[:dimensions], Error: x[dimensions], Adjustment: x[dimensions+1], Height: x[dimensions+2]}
	if from = math.Sqrt(from) + c.Height; from > maxPlace || math.Abs(c.Adjustment) > maxPlace || c.Height < 0 || c.Error < 0 {
		return nil, fmt.Errorf("coordinate lies %.3g s from the origin, its error is %.3g", from, c.Error)
	}
	return c, nil
}
