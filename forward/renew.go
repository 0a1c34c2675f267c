package forward

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// Certificate is a renewed certificate, and the sponsor that signed it.
type Certificate struct {
	Cert *string        `json:"cert,omitempty"` // in text form
	By   cluster.NodeID `json:"by,omitempty"`
}

// Renew certifies the member that asks anew.
var Renew = &Op[None, Certificate]{
	Name: "renew", At: Sponsor, Lane: overload.Control,
	Doc: "renews the certificate of the host that asks", Answers: "the certificate",
	Who: "any member, for itself",
}
