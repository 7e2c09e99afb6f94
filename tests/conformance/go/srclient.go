package main

// srclient's client of schema registries, with the codecs that it makes of schemas.

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/riferrei/srclient"
)

// srclientTour registers a schema, frames a value by its codec, and asks for all that the client has.
func srclientTour(a Args) (Answer, error) {
	client, subject := srclient.NewSchemaRegistryClient(a.Framing.URL), a.Framing.Subject
	made, err := client.CreateSchema(subject, a.Framing.Schema, srclient.Avro)
	if err != nil {
		return nil, err
	}
	latest, err := client.GetLatestSchema(subject)
	if err != nil {
		return nil, err
	}
	native, _, err := latest.Codec().NativeFromTextual(a.Framing.Payload)
	if err != nil {
		return nil, err
	}
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(made.ID()))
	framed, err = latest.Codec().BinaryFromNative(framed, native)
	if err != nil {
		return nil, err
	}
	found, err := client.LookupSchema(subject, a.Framing.Schema, srclient.Avro)
	if err != nil {
		return nil, err
	}
	fits, err := client.IsSchemaCompatible(subject, `"string"`, "latest", srclient.Avro)
	if err != nil {
		return nil, err
	}
	level, err := client.ChangeSubjectCompatibilityLevel(subject, srclient.Full)
	if err != nil {
		return nil, err
	}
	_, missing := client.GetSchema(1 << 30)
	if err := client.DeleteSubjectByVersion(subject, latest.Version(), false); err != nil {
		return nil, err
	}
	if err := client.DeleteSubject(subject, true); err != nil {
		return nil, err
	}
	subjects, err := client.GetSubjectsIncludingDeleted()
	return Answer{
		"id": made.ID(), "found": found.ID(), "data": base64.StdEncoding.EncodeToString(framed), "fits": fits,
		"level": level.String(), "missing": fmt.Sprint(missing), "subjects": subjects,
	}, err
}
