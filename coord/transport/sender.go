package transport

import (
	"crypto/ed25519"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// Capacities of the sender's queues.
const (
	sendSize   = 512  // datagrams to send; a full queue drops the newest, counted
	urgentSize = 1024 // revocations, which go before all else; the same
)

type datagram struct {
	to   net.Addr
	kind wire.Type
	data []byte
}

// sender writes datagrams. Its queues have one goroutine that fills and closes
// them, and one that empties them.
type sender struct {
	conn   net.PacketConn
	m      *metrics
	log    zerolog.Logger
	gate   *loglimit.Gate
	sendq  chan datagram
	urgent chan datagram
}

// queue hands a datagram to the writer, revocations to its fast lane.
func (s *sender) queue(d datagram) {
	lane := s.sendq
	if d.kind == wire.TypeRevoke {
		lane = s.urgent
	}
	select {
	case lane <- d:
	default:
		s.m.unsent.WithLabelValues("queue").Inc()
	}
}

func (s *sender) close() {
	close(s.urgent)
	close(s.sendq)
}

// run writes datagrams until both queues are closed, revocations first.
func (s *sender) run() {
	urgent, sendq := s.urgent, s.sendq
	for urgent != nil || sendq != nil {
		var d datagram
		ok := false
		select {
		case d, ok = <-urgent:
			if !ok {
				urgent = nil
			}
		default:
			select {
			case d, ok = <-urgent:
				if !ok {
					urgent = nil
				}
			case d, ok = <-sendq:
				if !ok {
					sendq = nil
				}
			}
		}
		if ok {
			s.write(d)
		}
	}
}

func (s *sender) write(d datagram) {
	_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second)) // a socket without deadlines does not wait
	if _, err := s.conn.WriteTo(d.data, d.to); err != nil {
		s.m.unsent.WithLabelValues("write").Inc()
		if s.gate.Pass("send/" + d.to.String()) {
			s.log.Debug().Err(err).Stringer("addr", d.to).Msg("datagram not sent")
		}
		return
	}
	s.m.sent.WithLabelValues(string(d.kind)).Inc()
}

// sealer signs this host's messages and numbers them.
type sealer struct {
	self cluster.NodeID
	key  ed25519.PrivateKey
	boot uint64
	wall func() time.Time
	m    *metrics
	seq  uint64
}

func (s *sealer) seal(to cluster.NodeID, kind wire.Type, payload any) ([]byte, error) {
	s.seq++
	data, err := wire.Seal(s.key, wire.Header{
		Node: s.self, Time: s.wall().Unix(), Type: kind, To: to, Boot: s.boot, Seq: s.seq,
	}, payload)
	if err != nil {
		s.m.unsent.WithLabelValues("seal").Inc()
	}
	return data, err
}
