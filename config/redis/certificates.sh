#!/bin/sh
# Makes an authority, a certificate of a Redis server and one of its clients:
#
#   sh certificates.sh FOLDER HOST       HOST: a name or an address, as clients write it in their URL
#
# ca.key signs: keep it elsewhere. Redis needs redis.crt, redis.key and ca.crt; clients need ca.crt, and client.crt and
# client.key where the server asks for them.
set -eu
folder=$1 host=$2
umask 077
mkdir -p "$folder"
cd "$folder"

case $host in
  *[!0-9.]*) name="DNS:$host" ;;
  *) name="IP:$host" ;;
esac

openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj "/CN=retrieval-worker authority" \
  -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
  -keyout ca.key -out ca.crt 2>/dev/null

sign() {  # FILE COMMON-NAME USE ALTERNATIVE-NAME
  openssl req -newkey rsa:3072 -nodes -subj "/CN=$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  printf 'extendedKeyUsage=%s\nsubjectAltName=%s\nauthorityKeyIdentifier=keyid\n' "$3" "$4" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.crt" \
    2>/dev/null
  rm "$1.csr" "$1.ext"
}

sign redis "$host" serverAuth "$name"
sign client "retrieval-worker client" clientAuth "DNS:client"
