"""Jobs split over ranks otherwise than golden's: golden's tensors as each rank has them."""
