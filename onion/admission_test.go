package onion

import (
	"bytes"
	"crypto/ecdh"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/tor"
)

// clientPub is the n-th public key.
func clientPub(t *testing.T, n int) []byte {
	t.Helper()
	k, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{byte(n >> 8), byte(n)}, 16))
	if err != nil {
		t.Fatal(err)
	}
	return k.PublicKey().Bytes()
}

// TestAdmitted: an own onion service knows its host, the members and who is
// invited, is never open to all, and never has more keys than fit.
func TestAdmitted(t *testing.T) {
	own := clientPub(t, 1)
	has := func(clients map[string]string, key []byte) bool {
		text := clientEncoding.EncodeToString(key)
		return clients[strings.ToLower(text)] == text
	}
	admit := func(members []cluster.Member, invited ...[32]byte) (map[string]string, int) {
		var a admission
		left := a.update(own, members, invited)
		if again := a.update(own, slices.Clone(members), slices.Clone(invited)); again != 0 {
			t.Errorf("%d left out where nothing changed", again)
		}
		return a.clients, left
	}
	alone, left := admit(nil)
	if len(alone) != 1 || left != 0 || !has(alone, own) {
		t.Errorf("alone: %v, %d left out", alone, left)
	}
	list := []cluster.Member{
		{Node: "self", OnionClient: own},
		{Node: "no-tor"},
		{Node: "peer", OnionClient: clientPub(t, 2)},
		{Node: "short", OnionClient: []byte{1}},
		{Node: "weak", OnionClient: make([]byte, 32)},
	}
	few, left := admit(list, [32]byte(clientPub(t, 3)))
	if len(few) != 3 || left != 0 || !has(few, own) || !has(few, clientPub(t, 2)) || !has(few, clientPub(t, 3)) {
		t.Errorf("%v, %d left out", few, left)
	}
	var many []cluster.Member
	for i := range maxAdmitted + 9 {
		many = append(many, cluster.Member{OnionClient: clientPub(t, 10+i)})
	}
	full, left := admit(many, [32]byte(clientPub(t, 3)))
	if len(full) != maxAdmitted || left != 11 || !has(full, own) || !has(full, clientPub(t, 10)) || has(full, clientPub(t, 3)) {
		t.Errorf("%d keys, %d left out", len(full), left)
	}
}

// TestKeepPoints: the number of a service's points outlives a reload.
func TestKeepPoints(t *testing.T) {
	have := []tor.Service{{Dir: "/node"}, {Dir: "/host", IntroPoints: 10}}
	want := []tor.Service{{Dir: "/node"}, {Dir: "/host", IntroPoints: 6}, {Dir: "/new", IntroPoints: 6}}
	keepPoints(want, have)
	if want[0].IntroPoints != 0 || want[1].IntroPoints != 10 || want[2].IntroPoints != 6 {
		t.Errorf("%+v", want)
	}
}
