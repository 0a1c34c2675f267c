package join

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// Limits and names of the exchange.
const (
	macHeader    = "Skein-Mac"   // HMAC of the answer's exact bytes, base64url
	proofHeader  = "Skein-Proof" // the token's, see token.Token.Proof
	maxAnswer    = 64 << 10
	maxDepth     = 6
	nonceLen     = 16
	requestPast  = 300 * time.Second // how old a request may be
	requestAhead = 60 * time.Second  // how far its clock may be ahead
)

// request asks for admission.
type request struct {
	// ClusterToken is "v2:" and the HMAC of the transcript under the invite's
	// secret.
	ClusterToken string     `json:"cluster_token"`
	WGPub        wire.WGKey `json:"wg_pubkey"`
	Endpoint     string     `json:"wg_endpoint"`
	TunnelIP     string     `json:"tunnel_ip"` // ignored: the sponsor decides
	RequestTime  int64      `json:"request_time"`

	Node  cluster.NodeID `json:"node_id"`
	IDPub []byte         `json:"id_pub"`
	Nonce []byte         `json:"nonce"`
	Ann   member.Signed  `json:"ann"`
	// Sig is the identity key's signature of the transcript, Possession its
	// HMAC under the WireGuard keys' shared secret.
	Sig        []byte `json:"sig"`
	Possession []byte `json:"possession"`
}

// offer is what a newcomer checks before it confirms: it shows that the sponsor is
// one of the token's cluster. It grants nothing.
type offer struct {
	Node    cluster.NodeID `json:"responder_node_id"`
	Network netip.Prefix   `json:"network"`
	Records member.Records `json:"records"` // the sponsors
}

// answer is what an admitted host gets.
type answer struct {
	Success  bool            `json:"success"`
	Node     cluster.NodeID  `json:"responder_node_id"`
	WGPub    wire.WGKey      `json:"responder_wg_pubkey"`
	Endpoint netip.AddrPort  `json:"responder_wg_endpoint"`
	TunnelIP netip.Addr      `json:"responder_tunnel_ip"`
	Peers    []wire.PeerHint `json:"known_peers"`

	ClusterName string         `json:"cluster_name"`
	Network     netip.Prefix   `json:"network"`
	Secret      []byte         `json:"cluster_secret"`
	Cert        member.Signed  `json:"cert"`
	Records     member.Records `json:"records"` // the sponsors
	Digest      wire.Digest    `json:"digest"`  // of all that the sponsor holds
}

const (
	requestDomain    = "skein/join/1\n"
	sigDomain        = "skein/join/sig/1\n"
	possessionDomain = "skein/join/wg/1\n"
	offerDomain      = "skein/join/offer/2\n"
	answerDomain     = "skein/join/answer/1\n"
	tokenPrefix      = "v2:"
)

var macEncoding = base64.RawURLEncoding.Strict()

// transcript binds a request to one cluster, sponsor and invite. It covers
// every field that the sponsor uses.
func (r *request) transcript(c member.ClusterID, sponsor ed25519.PublicKey, invite string) []byte {
	b := []byte(requestDomain)
	for _, f := range [][]byte{
		c[:], sponsor, []byte(invite), []byte(r.Node), r.IDPub, r.WGPub[:], []byte(r.Endpoint),
		[]byte(strconv.FormatInt(r.RequestTime, 10)), r.Nonce, r.Ann.Bytes, r.Ann.Sig,
	} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

// prove fills in the proofs.
func (r *request) prove(transcript []byte, secret token.Secret, idKey ed25519.PrivateKey, wgKey, sponsorWG [32]byte) error {
	r.ClusterToken = tokenPrefix + macEncoding.EncodeToString(mac(secret.Bytes(), transcript))
	r.Sig = ed25519.Sign(idKey, append([]byte(sigDomain), transcript...))
	shared, err := sharedKey(wgKey, sponsorWG)
	if err != nil {
		return err
	}
	r.Possession = mac(shared, transcript)
	return nil
}

// checkSecret reports whether r proves the invite's secret, in constant time.
func (r *request) checkSecret(transcript, secret []byte) bool {
	want := tokenPrefix + macEncoding.EncodeToString(mac(secret, transcript))
	return hmac.Equal([]byte(r.ClusterToken), []byte(want))
}

// checkKeys reports whether r proves both private keys, and that the
// announcement is theirs; wgKeys are this host's, one of which the token names.
func (r *request) checkKeys(transcript []byte, wgKeys [][32]byte) error {
	if len(r.IDPub) != ed25519.PublicKeySize || len(r.Nonce) != nonceLen {
		return errors.New("identity key or nonce of wrong length")
	}
	if !ed25519.Verify(r.IDPub, append([]byte(sigDomain), transcript...), r.Sig) {
		return errors.New("identity signature is wrong")
	}
	proven := false
	for _, k := range wgKeys {
		shared, err := sharedKey(k, r.WGPub)
		if err != nil {
			return err
		}
		proven = hmac.Equal(r.Possession, mac(shared, transcript)) || proven
	}
	if !proven {
		return errors.New("wireguard key is not proven")
	}
	ann, err := member.ParseAnn(r.Ann)
	if err != nil {
		return err
	}
	if !ann.IDPub.Equal(ed25519.PublicKey(r.IDPub)) || ann.WGPub != r.WGPub {
		return errors.New("announcement of other keys")
	}
	return nil
}

// answerMAC authenticates an answer together with the request that it answers.
func answerMAC(secret, transcript, body []byte) []byte {
	return bodyMAC(answerDomain, secret, transcript, body)
}

// offerMAC does so for an offer.
func offerMAC(secret, transcript, body []byte) []byte {
	return bodyMAC(offerDomain, secret, transcript, body)
}

func bodyMAC(domain string, secret, transcript, body []byte) []byte {
	b := []byte(domain)
	b = binary.BigEndian.AppendUint32(b, uint32(len(transcript)))
	b = append(b, transcript...)
	return mac(secret, append(b, body...))
}

// sharedKey derives the key that only the two WireGuard keys' owners know.
func sharedKey(private, public [32]byte) ([]byte, error) {
	key, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return nil, fmt.Errorf("wireguard key: %w", err)
	}
	peer, err := ecdh.X25519().NewPublicKey(public[:])
	if err != nil {
		return nil, fmt.Errorf("wireguard key: %w", err)
	}
	shared, err := key.ECDH(peer)
	if err != nil {
		return nil, fmt.Errorf("wireguard key: %w", err)
	}
	h := sha256.Sum256(append([]byte(possessionDomain), shared...))
	return h[:], nil
}

func mac(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil)
}

// parseRequest reads a request strictly.
func parseRequest(body []byte) (*request, error) {
	if err := wire.CheckJSON(body, maxDepth); err != nil {
		return nil, err
	}
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	if _, err := cluster.ParseHostName(string(r.Node)); err != nil {
		return nil, err
	}
	return &r, nil
}

// parseOffer reads an offer strictly.
func parseOffer(body []byte) (*offer, error) {
	if err := wire.CheckJSON(body, maxDepth); err != nil {
		return nil, err
	}
	var o offer
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	return &o, member.CheckCIDR(o.Network)
}

// parseAnswer reads an answer strictly.
func parseAnswer(body []byte) (*answer, error) {
	if err := wire.CheckJSON(body, maxDepth); err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, errors.New("wrong type of a field") // the text may hold the secret
	}
	if !a.Success || len(a.Secret) != token.SecretLen || len(a.ClusterName) > maxClusterName {
		return nil, errors.New("a field is missing or of wrong length")
	}
	return &a, member.CheckCIDR(a.Network)
}
