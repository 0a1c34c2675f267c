package snapshots

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/wire"
)

// statePart is the most bytes of a state in one message.
const statePart = 1 << 20

// Answer answers a question about snapshots.
func (k *Keeper) Answer(from cluster.NodeID, m wire.Message) (wire.Type, []byte, error) {
	switch m.Kind {
	case wire.MsgPropose:
		return k.signing.answerPropose(from, m.Payload)
	case wire.MsgSnapshot:
		t := k.catalog.newest()
		if t == nil {
			return wire.MsgNothing, nil, nil
		}
		text, err := json.Marshal(t)
		return wire.MsgSnapshotIs, text, err
	case wire.MsgState:
		return k.answerState(m.Payload)
	case wire.MsgAttest:
		if len(m.Payload) != 32 {
			return 0, nil, fmt.Errorf("%w: attest question of %d bytes", wire.ErrPeer, len(m.Payload))
		}
		t := k.catalog.find(cluster.Hash(m.Payload))
		if t == nil {
			return wire.MsgRefused, []byte("not kept here"), nil
		}
		return wire.MsgSigned, snapshot.Sign(k.o.Cluster, t.ID, k.o.Self, k.o.Key).Sig, nil
	}
	return 0, nil, fmt.Errorf("%w: message type %d", wire.ErrPeer, m.Kind)
}

func (k *Keeper) answerState(b []byte) (wire.Type, []byte, error) {
	if len(b) != 40 {
		return 0, nil, fmt.Errorf("%w: state question of %d bytes", wire.ErrPeer, len(b))
	}
	t := k.catalog.find(cluster.Hash(b[:32]))
	off := binary.BigEndian.Uint64(b[32:])
	if t == nil || off >= uint64(t.Size) {
		return wire.MsgNothing, nil, nil
	}
	part, err := k.files.part(t, int64(off), statePart)
	if err != nil {
		return 0, nil, err
	}
	return wire.MsgStateIs, part, nil
}
